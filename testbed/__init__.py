"""The whole picture on one machine, and what breaks it. The only room that may import every other."""
