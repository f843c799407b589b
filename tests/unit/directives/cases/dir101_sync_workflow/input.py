def w():
    "use workflow"
