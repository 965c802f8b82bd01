"""Small apps to begin from, each in one file. README.md here says which is which."""
