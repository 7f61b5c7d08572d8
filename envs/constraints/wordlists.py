"""Word lists: English function words by class, and the lists that IFBench's instructions name."""

from __future__ import annotations


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


ABBREVIATIONS = _words(
    "mr mrs ms messrs dr prof sen rep reps gen col maj lt adm sr jr st ave",  # titles, names, streets
    "inc corp co cos ltd bros cie chg vs ok ct",  # firms, law
    "jan feb aug sep sept oct nov dec tues wed fri",  # dates
    "ala ariz calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn va vt wash wis w.va sw",  # places
    "ft yr mg c d e f g h k l m n p r s t v w",  # measures, single letters
    "u.s u.s.a u.s.s.r u.k u.n n.y n.j n.c n.d n.h n.m r.i s.c d.c l.a a.m p.m p.a.m a.d ph.d m.b.a m.d.c c.v c.i.t c.o.m.b",
    "s.p.a s.a s.a.y s.s s.g a.s a.g n.v b.v i.m.s a.m.e",  # firms
    "a.a a.c a.h a.t b.f d.h d.w e.f e.h e.l e.m f.g f.j g.d g.f g.k h.c h.f h.m j.b j.c j.j j.k j.p j.r",  # first names
    "l.f l.p m.j r.a r.h r.j r.k r.t t.j w.c w.r w.w",
)
"""The abbreviations in Punkt's English model; a full stop after one ends no sentence. As in that model, "i.e.", "e.g." and
"P.S." are missing, so the full stop after them does end a sentence."""

FUNCTION_WORDS = _words(
    "the a an this that these those some any each every all both many most such no another other",
    "he she it they we you who what which there here his her its their our my your",
    "and but or so yet nor for if when while since because although though as after before until unless whereas whether",
    "in on at by from with of to into over under about during through between against without within among despite",
    "is are was were be been has have had do does did will would can could should may might must",
    "how why where then thus also now not only even just first second third next finally however moreover meanwhile instead",
    "therefore nevertheless nonetheless indeed similarly separately according additionally furthermore overall",
    "let please yes one two three people time",
)
"""Words that are capitalised only at the start of a sentence."""

SENTENCE_STARTERS = _words("i nevertheless indeed however instead similarly nonetheless separately moreover meanwhile")

STOP_WORDS = _words(
    "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its",
    "itself they them their theirs themselves what which who whom this that these those",
    "am is are was were be been being have has had having do does did doing",
    "a an the and but if or because as until while of at by for with about against between into through during before after",
    "above below to from up down in out on off over under again further then once here there when where why how",
    "all any both each few more most other some such no nor not only own same so than too very can will just should now",
    # what is left of a shortened form where words are runs of letters
    "s t d ll m o re ve y don ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won",
    "wouldn",
)
"""English stop words: nltk's list `english`, with words such as "don't" split into runs of letters."""

CONJUNCTIONS = _words("and but for nor or so yet")

PRONOUNS = _words(
    "i me we us you he him she her it they them my mine our ours your yours his hers its their theirs",
    "myself ourselves yourself yourselves himself herself itself themselves this that these those",
    "who whom whose which what whoever whomever whatever whichever",
    "anybody anyone anything everybody everyone everything nobody nothing somebody someone something",
    "each either neither both all some any none",
)

PERSON_NAMES = tuple(
    (
        "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin Harper "
        "Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah Layla "
        "Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan"
    ).split()
)
"""The names that the instruction `count:person_names` lists in its prompt."""

NORTHERN_CAPITALS = tuple(
    (
        "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw London "
        "Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb"
    ).split()
)
"""European capitals north of 45 degrees latitude, from north to south. As in the benchmark's own list, Kyiv is missing."""
