g = lambda: "use step"
