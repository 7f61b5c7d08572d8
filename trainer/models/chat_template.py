"""Checks of a tokenizer's chat template: which variables it takes, and whether turns end where generation ends."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from verigym.envs.contract.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from jinja2 import nodes

    from verigym.trainer.models.codec import Codec

_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A tag that transformers adds to Jinja's language; it writes nothing."""
_OURS = frozenset({"messages", "raise_exception", "strftime_now"})
DATE = "strftime_now"
"""Function of transformers that gives a template today's date."""


def variables(template: str) -> set[str]:
    """Return the variables that the Jinja template `template` reads and that a caller can set.

    A variable that the template itself sets counts only if the template reads it before, as in
    `{% if x is not defined %}{% set x = 1 %}{% endif %}`.

    Raises:
        jinja2.TemplateError: the template is not valid.
    """
    import jinja2  # here, for configurations are read where it is not installed
    from jinja2 import meta

    tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(_GENERATION.sub("", template))
    first: dict[str, str] = {}
    for name in _names(tree):
        first.setdefault(name.name, name.ctx)
    return {name for name in meta.find_undeclared_variables(tree) if first[name] == "load"}


def _names(node: nodes.Node) -> Iterator[nodes.Name]:
    """Yield the names below `node` in the order in which a rendering meets them."""
    from jinja2 import nodes

    if isinstance(node, nodes.Name):
        yield node
    for child in node.iter_child_nodes(exclude=("target",) if isinstance(node, nodes.Assign) else None):
        yield from _names(child)
    if isinstance(node, nodes.Assign):
        yield from _names(node.target)


def templates_of(tokenizer: Any) -> list[str]:
    """Return the chat templates of `tokenizer`; some tokenizers have one of their own for tools."""
    given = tokenizer.chat_template
    return list(given.values()) if isinstance(given, Mapping) else [given] if given else []


def refuse_unused(tokenizer: Any, name: str, kwargs: Mapping[str, Any]) -> None:
    """Check that the chat template uses each of the variables that a user has set.

    Args:
        tokenizer: a tokenizer of transformers.
        name: the tokenizer's name, for the message.
        kwargs: the variables, by name.

    Raises:
        UsageError: there is no chat template, it does not use one of the names, or verigym or transformers sets that name.
    """
    if not kwargs:
        return
    import jinja2

    texts = templates_of(tokenizer)
    if not texts:
        raise UsageError(f"chat_template_kwargs: {name} has no chat template; leave it out")
    taken = set(inspect.signature(tokenizer.apply_chat_template).parameters) - {"documents"} | _OURS
    taken |= set(tokenizer.special_tokens_map)
    try:
        known = set().union(*map(variables, texts)) - taken
    except jinja2.TemplateError as error:
        raise UsageError(f"chat_template_kwargs: the chat template of {name} is not valid: {error}") from None
    for wanted in kwargs:
        if wanted in taken:
            raise UsageError(f"chat_template_kwargs: {wanted!r} is set by verigym or the tokenizer; leave it out")
        if wanted not in known:
            takes = did_you_mean(wanted, known) if known else "; it takes none"
            raise UsageError(f"chat_template_kwargs: the chat template of {name} does not use {wanted!r}{takes}")


def problem_of(codec: Codec) -> str:
    """Return a warning about the chat template of `codec`; empty if there is nothing to say.

    Turns may end with a token that does not end generation, so the model would go on after its turn. Or prompts contain today's
    date, so a run that is resumed on another day would have other prompts.
    """
    control = codec.control
    afters = [after for after in codec.after_turn if after.strip()]
    if control is not None and afters:
        ids = [codec.encode_text(after) for after in afters]
        ends = [tokens[0] for tokens in ids if tokens[0] in control.ids and not codec.eos_ids & set(tokens)]
        if ends and len(ends) == len(ids):
            written, token = codec.tokenizer.convert_ids_to_tokens(ends[-1]), ends[-1]
            return (
                f"the chat template of {codec.name} ends turns with {written!r}, at which generation does not end; add its id, "
                f"{token}, to eos_token_id in the model's generation_config.json"
            )
    import jinja2

    try:
        known = set().union(*map(variables, templates_of(codec.tokenizer)))
    except jinja2.TemplateError:  # rendering reports it
        return ""
    fixing = known & {"date_string", "current_date"}
    if DATE in known and not fixing & set(codec.chat_template_kwargs):
        advice = f"; set chat_template_kwargs, such as {{{min(fixing)}: 26 Jul 2024}}" if fixing else ""
        return (
            f"the chat template of {codec.name} may write today's date into prompts, so that a run which is resumed on another "
            f"day has other prompts{advice}"
        )
    return ""
