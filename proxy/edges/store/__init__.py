"""Redis and Valkey behind the Store port: one script for the one write, and a lane that groups what is asked."""
