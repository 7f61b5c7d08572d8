"""Compositions: environments made of environments.

- `operators`: `WeightedSum`, `Gate`, `AllOf`, `AnyOf`.
- `base`: `Composition`, their base class: parts, prompts, references, group verdicts.
- `part_scores`: how a composed score shows the scores of its parts.
- `terms`: a composed reward as a weighted sum, for advantages that are computed for each part separately.
"""
