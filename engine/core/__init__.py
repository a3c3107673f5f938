"""What every other room needs: models, errors, configuration, outcomes, ids."""
