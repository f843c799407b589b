try:
    import fastpdf
except ImportError:
    async def render(doc): "use step"; return doc.upper()
else:
    async def render(doc): "use step"; return fastpdf.render(doc)
