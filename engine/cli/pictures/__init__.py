"""Pictures of a run on the terminals that can show them; elsewhere they are saved."""
