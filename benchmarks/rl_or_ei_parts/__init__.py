"""Parts of the study of reinforcement learning against expert iteration."""
