"""`dates`: find the date that is a given number of days or weekdays before or after another (Gregorian calendar)."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import TextOptions, TextPuzzle, TextReference, at

FARTHEST = (20, 60, 700, 40, 400)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def later(day: date, count: int, *, weekdays: bool = False) -> date:
    """Return the date `count` days after `day`, or before `day` if `count` is negative.

    With `weekdays`, Saturdays and Sundays are not counted.
    """
    if not weekdays:
        return day + timedelta(days=count)
    step = timedelta(days=1 if count > 0 else -1)
    while count:
        day += step
        if day.weekday() < 5:
            count -= 1 if count > 0 else -1
    return day


class DatesEnvironment(TextPuzzle[TextReference, TextOptions]):
    """Tasks to count days from a date. Levels 1 and 2 count forward, higher levels forward or back.

    Levels 4 and 5 count only weekdays (Monday to Friday).
    """

    name = "dates"
    version = "2"
    reference_type = TextReference
    options_type = TextOptions

    def make(self, rng: random.Random) -> Made:
        """Draw a day of 1950 to 2049 and how far another is from it."""
        day = date(1950, 1, 1) + timedelta(days=rng.randrange(36_500))
        count = rng.randint(at(self.level, FARTHEST) // 10, at(self.level, FARTHEST))
        back = self.level > 2 and rng.random() < 0.5
        working = self.level > 3
        found = later(day, -count if back else count, weekdays=working)
        what = f"{count} weekdays (Monday to Friday)" if working else f"{count} days"
        question = f"Which date is {what} {'before' if back else 'after'} {day.isoformat()}? Answer as YYYY-MM-DD."
        return Made(question, found.isoformat())

    def problem(self, reference: TextReference, answer: str) -> str:
        """The same date, written as asked."""
        if not _DATE.fullmatch(answer):
            return "not a date written YYYY-MM-DD"
        return "" if answer == reference.answer else "another date"
