"""The tools of examples/host-tools and examples/async-tools in Python, on this example's worker. The demo's story is
played with them: `npm run demo -- --workers python,go`."""
