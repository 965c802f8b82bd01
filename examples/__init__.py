"""Small apps to start from, each in one file; README.md lists them."""
