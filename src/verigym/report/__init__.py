"""`verigym report` makes one page of runs, scores and evaluations; `verigym watch` follows a run on the terminal.

- `rows`: reads JSON Lines that another process may still be writing; `record`: one sample in the form that the page needs
- `reading/`: reads the folder of a run, a file of scores, or an evaluation
- `figures`, `comparison`, `curves`: statistics over all samples and steps
- `packing`: packs samples into compressed chunks with an index; `build`: makes the page; `page/`: its HTML, CSS and scripts
- `watch/`: the live view on the terminal

The package needs only verigym's core dependencies: it uses no numpy and no torch.
"""
