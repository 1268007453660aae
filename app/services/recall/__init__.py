"""Looking up what was said: words, ranking, references."""
