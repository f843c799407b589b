class C:
    @property
    def p(self):
        "use step"
