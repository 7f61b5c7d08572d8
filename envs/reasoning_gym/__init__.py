"""Tasks of the reasoning-gym library as environments, judged more strictly than the library does."""
