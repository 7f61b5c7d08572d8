"""Runs beside the package renderers: reads conversations from stdin, and writes that package's tokens of each next input.

Arguments: the folder with the package, and that of the tokenizer. It is installed apart from the project, whose packages win.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def renderers(tokenizer: Any) -> dict[str, Any]:
    """Renderers by name of the chat template, all of which keep earlier thinking, as token streams do."""
    from renderers import configs
    from renderers.qwen3 import Qwen3Renderer
    from renderers.qwen35 import Qwen35Renderer
    from renderers.qwen36 import Qwen36Renderer
    from renderers.qwen38 import Qwen38Renderer

    return {
        "qwen3": Qwen3Renderer(tokenizer, configs.Qwen3RendererConfig(thinking_retention="all")),
        "qwen3_5_think": Qwen35Renderer(tokenizer, configs.Qwen35RendererConfig(thinking_retention="all")),
        "qwen3_5_nothink": Qwen35Renderer(tokenizer, configs.Qwen35RendererConfig(enable_thinking=False)),
        "qwen3_6": Qwen36Renderer(tokenizer, configs.Qwen36RendererConfig(thinking_retention="all")),
        "qwen3_8": Qwen38Renderer(tokenizer, configs.Qwen38RendererConfig(thinking_retention="all")),
    }


def main() -> None:
    """Answer each conversation by the tokens of its prompt and of the input after each of its turns."""
    sys.path.append(sys.argv[1])
    from transformers import AutoTokenizer

    known = renderers(AutoTokenizer.from_pretrained(sys.argv[2]))
    for line in sys.stdin:
        case = json.loads(line)
        renderer = known[case["template"]]
        inputs = [renderer.render_ids(case["prompt"], tools=case["tools"], add_generation_prompt=True)]
        for turn in case["turns"]:
            bridged = renderer.bridge_to_next_turn(turn["input"], turn["written"], turn["replies"], tools=case["tools"])
            inputs.append(None if bridged is None else bridged.token_ids)
        print(json.dumps(inputs))


if __name__ == "__main__":
    main()
