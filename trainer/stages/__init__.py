"""Training stages besides GRPO: a model from scratch, supervised fine-tuning, rejection sampling, distillation.

A stage that was stopped resumes when it is started again. `pipelines` chains stages.

- `config`: the settings of all stages
- `step_run`: the training loop of the stages: resume, evaluate, save, export
- `scratch`, `sft`, `rejection_sampling`, `distill` with `distill_losses` (pure): the stages
- `examples`: prompts with completions to learn, from files or written by environments; `packing`: several examples in one row
- `sample_log`: a file of graded completions, from which sampling resumes; `kept_completions`: single completions
  of unfinished prompts; `selection`: selects completions to keep (pure)
- `quickstart`: `verigym quickstart`
"""
