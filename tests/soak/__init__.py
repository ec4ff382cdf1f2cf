"""`./dev soak`: kinds of attack that run for as long as wanted, each with a seed, counts, and checks of the promises."""
