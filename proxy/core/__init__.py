"""Values and functions: every decision of the product, with no await, no clock and no socket."""
