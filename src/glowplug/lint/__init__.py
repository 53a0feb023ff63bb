"""What is wrong with manifests that somebody has, why, and how to mend it."""
