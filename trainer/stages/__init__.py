"""Training stages besides GRPO: a model from scratch, supervised fine-tuning, rejection sampling, distillation.

Each resumes where it was stopped. `pipelines` chains them.

- `config`: the settings of all of them
- `step_run`: the training loop of the stages: resume, evaluate, save, export
- `scratch`, `sft`, `rejection_sampling`, `distill` with `distill_losses` (pure): the stages
- `examples`: prompts with completions to learn, from files or written by environments; `packing`: several in one row
- `sample_log`: graded completions in a file that sampling continues; `selection`: which completions are kept (pure)
- `quickstart`: `verigym quickstart`
"""
