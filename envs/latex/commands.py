r"""TeX's control sequences and their meaning: tables from names to tokens.

Names outside the tables are refused, since it is unknown what they print. So are commands that hide, move or replace their
argument (`\phantom`, `\cancel`, `\overset`, `\input`).
"""

from __future__ import annotations

from verigym.envs.latex.vocabulary import FUNCTIONS, GREEK

Meaning = tuple[str, str]
"""Kind and text of a token."""


def _each(names: str, kind: str, text: str | None = None) -> dict[str, Meaning]:
    return {name: (kind, name if text is None else text) for name in names.split()}


COMMANDS: dict[str, Meaning] = {
    **{name: ("sym", name) for name in GREEK},
    **{f"var{name}": ("sym", name) for name in "epsilon theta rho sigma phi kappa".split()},
    **{f"var{name}": ("sym", name) for name in "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()},
    **_each("ell hbar partial nabla aleph mho odot otimes ominus imath jmath beth omicron bot dagger ddagger", "sym"),
    **_each("top intercal", "sym", "T"),
    **_each("pi varpi", "const", "pi"),
    **_each("infty infinity", "const", "infinity"),
    **_each("times cdot ast star cdotp bullet", "*"),
    "div": ("/", "/"), "slash": ("/", "/"), "pm": ("±", "+"), "mp": ("±", "-"),
    **_each("le leq leqslant leqq", "rel", "<="), **_each("ge geq geqslant geqq", "rel", ">="),
    **_each("lt", "<", "<"), **_each("gt", ">", ">"), **_each("ne neq", "rel", "!="), "eq": ("rel", "="),
    **_each("approx approxeq simeq doteq fallingdotseq", "rel", "approx"),
    **_each("equiv", "rel", "equiv"), **_each("in isin", "rel", "in"), **_each("notin", "rel", "notin"),
    **_each("subset subseteq subsetneq", "rel", "subset"), "colon": (":", ":"), "ratio": (":", ":"),
    **_each("to rightarrow longrightarrow mapsto longmapsto", "rel", "to"),
    **_each("cup bigcup", "setop", "union"), **_each("cap bigcap", "setop", "intersection"),
    **_each("setminus backslash smallsetminus", "setop", "difference"),
    **_each("emptyset varnothing", "set", "empty"),
    **{letter: ("set", letter) for letter in "RZQNC"},
    **_each("Rightarrow Longrightarrow implies Leftrightarrow iff Longleftrightarrow leftrightarrow oplus veebar", "arrow"),
    **_each("sim cong perp parallel propto ll gg models vdash nmid supset supseteq ni prec succ nsubseteq asymp", "verb"),
    **_each("mid vert", "|", "|"), **_each("lvert", "lbar", "|"), **_each("rvert", "rbar", "|"),
    **_each("Vert lVert rVert", "‖", "‖"),
    **_each("land wedge", "and", "land"), **_each("lor vee", "or", "lor"), **_each("neg lnot", "not", "not"),
    **_each("forall exists nexists", "word"),
    **_each("ldots dots cdots dotsc dotsb dotsm dotso vdots ddots hdots", "dots", "..."),
    **_each("circ degree", "circ", "degree"), "celsius": ("celsius", "celsius"), "fahrenheit": ("celsius", "fahrenheit"),
    "prime": ("'", "'"), "dprime": ("'", "''"),
    **_each("angle measuredangle sphericalangle triangle arc parallelogram", "shape"), "bigtriangleup": ("shape", "triangle"),
    **_each("frac dfrac tfrac cfrac sfrac nicefrac fracc", "frac", "frac"),
    **_each("sqrt", "sqrt"), **_each("usqrt", "sqrt", "sqrt"), "ucbrt": ("cbrt", "cbrt"), "root": ("root", "root"),
    **_each("binom dbinom tbinom", "binom", "binom"), **_each("over atop", "over"), "choose": ("over", "choose"),
    **{name: ("func", meaning) for name, meaning in FUNCTIONS.items() if name not in ("oo", "binom", "sqrt", "cbrt")},
    "lg": ("func", "log"), "Pr": ("sym", "P"), "inf": ("func", "inf"), "sup": ("func", "sup"),
    **_each("sum prod int lim iint oint", "big"), "limit": ("big", "lim"), "intop": ("big", "int"),
    "bmod": ("mod", "mod"), "mod": ("mod", "mod"), "pmod": ("pmod", "pmod"), "pod": ("pmod", "pmod"),
    **_each("overline bar", "accent", "bar"), **_each("vec overrightarrow mathbf boldsymbol bm pmb bold", "accent", "vec"),
    **_each("hat widehat", "accent", "hat"), **_each("tilde widetilde", "accent", "tilde"),
    **_each("overleftrightarrow overarc wideparen widearc", "accent", "arc"),
    **_each("dot", "accent", "dot"), **_each("ddot", "accent", "ddot"), "mathring": ("accent", "ring"),
    **_each("lfloor", "⌊", "floor"), **_each("rfloor", "⌋", "floor"),
    **_each("lceil", "⌊", "ceil"), **_each("rceil", "⌋", "ceil"),
    **_each("langle", "⟨", "<"), **_each("rangle", "⟩", ">"),
    "lbrace": ("\\{", "\\{"), "rbrace": ("\\}", "\\}"), **_each("lbrack", "[", "["), **_each("rbrack", "]", "]"),
    **_each("lparen", "(", "("), **_each("rparen", ")", ")"),
    **_each("quad qquad", "quad", " "), **_each("newline cr tabularnewline", "row", "\\\\"),
    **_each("dollar textdollar", "money", "dollar"), **_each("euro", "money", "euro"), "yen": ("money", "¥"),
    **_each("pounds textsterling", "money", "pound sterling"), **_each("rupee", "money", "rupee"),
    **_each("cents", "money", "cent"), "percent": ("%", "%"), **_each("permille textperthousand perthousand", "%", "permille"),
    "textdegree": ("circ", "degree"), "colonequals": ("rel", "="), "coloneqq": ("rel", "="), "And": ("and", "and"),
}  # fmt: skip

UNPRINTED_COMMANDS = frozenset(
    "displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits rm bf it sf tt cal large Large LARGE huge Huge small "
    "normalsize tiny footnotesize scriptsize noindent hfill null centering nonumber notag hline relax mathstrut strut bfseries "
    "itshape normalfont thinspace medspace thickspace negthinspace enspace enskip space smallskip medskip bigskip par "
    "big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm middle therefore because qed "
    "boxed fbox beginboxed underline mathcal mathscr mathfrak mathit ensuremath mathop mathbin mathrel mathord mathopen "
    "mathclose mathpunct n smash mathsf mathtt left right nobreak allowbreak displaylimits protect".split()
)
"""Control sequences that print nothing themselves. If they have an argument in braces, it is kept. `n` is among them because of
escaped line ends."""

BOX_COMMANDS = frozenset(("boxed", "fbox", "beginboxed"))

TEXT_COMMANDS = frozenset(
    "text mbox hbox textbf textit textrm textnormal textsf texttt emph textsc textup textmd textsl textmath mathnormal "
    "mathrm operatorname operatornamewithlimits rmtext textstyletext DeclareMathOperator".split()
)
"""Control sequences whose argument is text."""
UPRIGHT_COMMANDS = frozenset("mathrm operatorname operatornamewithlimits".split())
"""Those of `TEXT_COMMANDS` whose argument may also be a constant or a function."""

UNPRINTED_ARGUMENT = frozenset("color textcolor colorbox hspace vspace hskip vskip kern mspace mkern fontsize".split())
"""Control sequences whose first argument is not printed."""

ENVIRONMENTS = {
    **{name: "matrix" for name in "matrix pmatrix bmatrix Bmatrix smallmatrix array psmallmatrix bsmallmatrix".split()},
    "vmatrix": "det", "Vmatrix": "det",
    **{name: "cases" for name in "cases dcases rcases".split()},
    **{name: "lines" for name in (
        "align align* aligned alignedat gather gather* gathered equation equation* split multline multline* eqnarray eqnarray* "
        "math displaymath center").split()},
}  # fmt: skip
