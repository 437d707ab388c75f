"""The machinery that judges katas; it knows nothing of any one level."""
