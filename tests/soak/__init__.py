"""`./dev soak`: attacks that run for as long as wanted, each with a seed, counts, and checks of the promises."""
