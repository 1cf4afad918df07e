"""Facts about providers, one TOML file each; `adapters/README.md` says how to write one."""
