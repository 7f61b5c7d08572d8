"""`verigym report` makes one page of runs, scores and evaluations; `verigym watch` follows a run on the terminal.

- `rows`: JSON Lines that may still be written; `record`: a sample as the page holds it
- `reading/`: what is in a run's folder, a file of scores, an evaluation
- `figures`, `comparison`, `curves`: what is counted over all samples and steps
- `packing`: samples in compressed chunks with an index; `build`: from inputs to the page; `page/`: its HTML, CSS and scripts
- `watch/`: the live view

Needs no more than the core: neither numpy nor torch.
"""
