"""What is measured in the environment of Flask: this package, bare Flask, and WSGI with nothing around it."""
