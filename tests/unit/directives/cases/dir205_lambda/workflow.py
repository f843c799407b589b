g = lambda: 'use step'
