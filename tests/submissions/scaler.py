"""A factory of models that count how many were built."""

built = []


def transformer(config, weights):
    if "scale" not in weights:
        raise ValueError(f"weights lack scale; there are {len(weights)}")
    built.append(1)
    return lambda x: x * weights["scale"] * config["times"] + len(built)
