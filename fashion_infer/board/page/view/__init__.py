"""From what the store has to what a template draws: a file a page, and what several of them need."""
