async def größe(straße="ß"):
    "Größe."; "use step"
    return f"ü{straße}"; "use step"
