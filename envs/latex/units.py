"""Units of measurement: one canonical name for all spellings of a unit.

Canonical names are the symbol for metric units (`cm`, `kg`), and the singular word in lower case for others (`mile`, `hour`,
`dollar`). An unknown word after a number is a unit too (`12 apples`). Its canonical name is its singular in lower case.
"""

from __future__ import annotations

_SPELLINGS = """
m: meter meters metre metres 米
km: KM kilometer kilometers kilometre kilometres kms 千米 公里
cm: CM centimeter centimeters centimetre centimetres cms 厘米
mm: MM millimeter millimeters millimetre millimetres 毫米
dm: decimeter decimeters decimetre decimetres 分米
nm: nanometer nanometers nanometre nanometres
um: micrometer micrometers micrometre micrometres micron microns
kg: KG kilogram kilograms kilo kilos kgs 千克 公斤
g: gram grams gm gms gramme grammes 克
mg: milligram milligrams 毫克
ton: tons tonne tonnes 吨
l: liter liters litre litres L 升
ml: ML milliliter milliliters millilitre millilitres mL 毫升
cl: centiliter centiliters centilitre centilitres cL
second: s sec secs seconds 秒
ms: millisecond milliseconds
minute: min mins minutes 分钟
hour: h hr hrs hours 小时
day: days 天 日
week: weeks wk wks 周
month: months 月
year: years yr yrs 年
century: centuries
decade: decades
inch: inches in
foot: feet ft
yard: yards yd yds
mile: miles mi
acre: acres
hectare: hectares ha
ounce: ounces oz
pound: pounds lb lbs
gallon: gallons gal
quart: quarts qt
pint: pints pt
cup: cups
teaspoon: teaspoons tsp
tablespoon: tablespoons tbsp
mile/hour: mph
km/hour: kph kmph
dollar: dollars USD usd bucks 美元
cent: cents 分
euro: euros EUR
pound sterling: GBP
yen: JPY 円
yuan: RMB CNY 元
rupee: rupees INR rs Rs
degree: degrees deg degs 度
radian: radians rad rads
celsius:
fahrenheit:
kelvin: K kelvins
newton: newtons N
joule: joules J
kj: kJ kilojoule kilojoules
watt: watts W
kw: kW kilowatt kilowatts
mW: milliwatt milliwatts
MW: megawatt megawatts
GW: gigawatt gigawatts
Mg: megagram megagrams
mA: milliampere milliamperes milliamp milliamps
kA:
nA:
pA: picoampere picoamperes
mV: millivolt millivolts
kV: kilovolt kilovolts
MV: megavolt megavolts
MPa: megapascal megapascals
GPa: gigapascal gigapascals
mPa:
keV:
MeV:
GeV:
mJ: millijoule millijoules
MJ: megajoule megajoules
kN: kilonewton kilonewtons
tesla: T teslas
kwh: kWh
volt: volts V
ohm: ohms
ampere: amperes amp amps A
hertz: Hz
khz: kHz
mhz: MHz
pascal: pascals Pa
kpa: kPa
mole: moles mol
erg: ergs
ev: eV
angstrom: angstroms
parsec: parsecs pc
light year: ly
unit: units
unit^2: sq.units
point: points pts pt.
person: people persons 人
child: children
man: men
woman: women
penny: pennies pence
foot-pound: foot-pounds
piece: pieces 个 只 条 本 张 件 块
time: times 次 倍
way: ways 种
"""
_CANONICAL: dict[str, str] = {}
for _line in _SPELLINGS.strip().splitlines():
    _name, _, _others = _line.partition(":")
    _CANONICAL[_name] = _name
    for _other in _others.split():
        _CANONICAL[_other] = _name

# In formulas these are more often a product of variables, a function or a word than a unit.
_NOT_IN_FORMULAS = frozenset(
    "in pt pc rs ly ha sec min time times way ways A K N J W V L h s m g l ms kilo amp deg mi rad KM CM MM MW GW MV".split()
)

_DIMENSIONS = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3", "平方": "^2", "立方": "^3"}


def known_unit(word: str) -> str | None:
    """Return the canonical name of the unit that `word` means in prose (`Miles`, `cm`); None if it is no known unit."""
    found = _CANONICAL.get(word)
    if found is None and word[:2] in ("平方", "立方"):
        base = _CANONICAL.get(word[2:])
        return None if base is None else base + _DIMENSIONS[word[:2]]
    if found is None and len(word) > 2:
        found = _CANONICAL.get(word.lower())
    return found


def formula_unit(word: str) -> str | None:
    r"""Return the canonical name of the unit `word`, if it may stand without `\text` after a number (`5cm`), else None."""
    return None if len(word) < 2 or word in _NOT_IN_FORMULAS else known_unit(word)


def dimension(word: str) -> str | None:
    """Return `^2` for `square` and `sq`, `^3` for `cubic`."""
    return _DIMENSIONS.get(word.lower())


def singular(word: str) -> str:
    """Return the singular of `word`, an unknown unit, so that its singular and plural have one form."""
    word = word.lower()
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def is_plural(word: str) -> bool:
    """Return whether `word` is a plural noun, possibly irregular (`children`, `fish`), or written in another script."""
    low = word.lower()
    return not word.isascii() or low in _PLURALS or (len(low) > 3 and low[-1] == "s" and low[-2] not in "su")


def is_common(word: str) -> bool:
    """Return whether `word` after a number may belong to the name of counted things, and is no comment on the number."""
    low = word.lower()
    if not word.isascii():
        return True
    if len(word) < 2 or low in _SAYS_MORE or low.endswith(_ORDINAL):
        return False
    if len(word) == 2 and word != low:
        return known_unit(word) is not None
    return known_unit(word) is not None or not (any(map(str.isupper, word[1:])) or _ROMAN.issuperset(low))


_PLURALS = frozenset(
    "children people men women feet teeth mice geese dice oxen fish sheep deer cattle aircraft series species vertices "
    "matrices indices axes data media bacteria police shrimp salmon trout moose bison swine spacecraft".split()
)
_ROMAN = frozenset("ivxlcdm")
_ORDINAL = ("ths", "fth", "nth", "rth", "xth", "hth", "eth")
_SAYS_MORE = frozenset(
    # wrong, doubtful, unfinished
    "incorrect wrong false invalid impossible rejected excluded none nothing something anything everything undefined unknown "
    "indeterminate unsure uncertain never not no nor neither perhaps maybe possibly probably guess guesses seems looks says is "
    "was are were be hmm idk lol etc et cetera approx approximately ca circa about roughly nearly almost around ballpark "
    "estimate estimates rounds rounded truncated ish but except unless without instead alternatively otherwise or and versus "
    "vs resp respectively answer answers cannot plus minus times less more fewer least most over under above below "
    # other numbers of it
    "too very small smaller smallest large larger largest big bigger lower upper bound bounds minimum maximum min max inverse "
    "inverses reciprocal reciprocals negative positive opposite conjugate squared cubed square cube root roots power powers "
    "factorial factorials base hex octal binary decimal mod modulo remainder fold double triple twice thrice half halves third "
    "thirds quarter quarters tenth tens hundreds thousands millions billions trillions lakhs crores dozens myriad myriads "
    "googol mil mill mills bil thou bn mn grand gross permille promille permil ppm ppb bps divided multiplied factor factors "
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty ninety zero "
    "oder elf ou onze pi exp log sin cos tan sqrt inf infinity".split()
)
