"""Training of reward models as stages: of whole answers by preference pairs, of steps by Math-Shepherd's labels."""
