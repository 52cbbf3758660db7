"""Looking at what runs already, by calls that load nothing and cost nothing, and writing the registry of it."""
