"""Where the product meets the world: sockets, the store, files, clocks. What fails here says what it proves."""
