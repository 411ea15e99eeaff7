"""Takes in submissions: unpacks them, stages them in separate folders, and builds them."""
