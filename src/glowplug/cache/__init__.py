"""Key → manifest → bundle: the format in the store, and publishing, looking up, restoring and keeping it in order."""
