"""Lists of keywords of Lean, Batteries and Mathlib, for the guard (`guard.py`) and for finding declarations in a text."""

from __future__ import annotations

COMMANDS = frozenset(
    {
        # declarations and their modifiers
        "theorem", "lemma", "def", "abbrev", "example", "instance", "axiom", "opaque", "structure", "class", "inductive",
        "coinductive", "mutual", "deriving", "private", "protected", "noncomputable", "partial", "nonrec", "irreducible_def",
        "proof_wanted", "alias",
        # scopes and files
        "namespace", "section", "end", "import", "export", "universe", "variable", "include", "omit",
        # syntax and metaprograms
        "macro", "macro_rules", "syntax", "declare_syntax_cat", "notation", "notation3", "infix", "infixl", "infixr",
        "prefix", "postfix", "elab", "elab_rules", "binder_predicate", "unif_hint", "simproc", "dsimproc",
        "simproc_decl", "dsimproc_decl", "initialize", "builtin_initialize", "run_cmd", "run_elab", "run_meta",
        "register_option", "register_builtin_option", "register_simp_attr", "register_label_attr",
        "declare_simp_like_tactic", "declare_config_elab", "tactic_extension", "register_tactic_tag",
        "set_premise_selector", "grind_pattern", "add_aesop_rules", "erase_aesop_rules",
        # attributes and the rest
        "attribute", "seal", "unseal", "init_quot", "add_decl_doc", "library_note", "suppress_compilation",
        "unsuppress_compilation", "compile_inductive", "compile_def", "initialize_simps_projections",
        "mk_iff_of_inductive_prop", "extend_docs", "assert_not_exists", "assert_not_imported", "recommended_spelling",
        "deprecated_module", "variable?",
    }
)  # fmt: skip
"""Words of Lean, Batteries and Mathlib that begin a command. `open` and `set_option` are handled separately."""

HASH_COMMANDS = (
    "#eval", "#exit", "#print", "#check", "#reduce", "#guard", "#synth", "#help", "#find", "#lint", "#where", "#version",
    "#exact", "#simp", "#norm_num", "#conv", "#push_cast", "#loogle", "#leansearch", "#moogle", "#search", "#count_heartbeats",
    "#time", "#show", "#html", "#widget", "#dump", "#discr_tree", "#import", "#min_imports", "#redundant_imports", "#long_",
    "#instances", "#sample", "#test", "#slim_check", "#plausible", "#aesop", "#with_exporting", "#info_trees", "#eqns",
    "#deprecated", "#unfold", "#whnf", "#trans_imports", "#minimize_imports", "#print_", "#gen_injective", "#grind_lint",
)  # fmt: skip
"""Prefixes of the commands that begin with `#`. Not every `#` begins a command: `#[1, 2]`, `#s` (a cardinality) and
`#(range n)` are terms, which a proof may contain."""

BANNED = frozenset(
    {
        "run_tac", "by_elab", "unsafe", "implemented_by", "extern", "csimp", "native_decide", "include_str", "include_bytes",
        "dbg_trace", "open Lean", "open private",
        "set_option debug.", "set_option compiler.", "set_option interpreter.", "set_option kernel.", "set_option bootstrap.",
    }
)  # fmt: skip
"""Things that a proof may not use: a word, `open NAMESPACE`, or `set_option` of an option that begins with the given prefix."""

METAPROGRAMS = frozenset(
    {
        "#eval", "run_cmd", "run_elab", "run_meta", "run_tac", "by_elab", "elab", "elab_rules", "initialize",
        "builtin_initialize", "simproc", "dsimproc", "simproc_decl", "dsimproc_decl", "declare_config_elab", "include_str",
        "include_bytes",
    }
)  # fmt: skip
"""Words that make Lean run the file's own code while it elaborates the file. Macros only rewrite syntax and are not listed."""
