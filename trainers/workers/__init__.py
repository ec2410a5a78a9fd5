"""Functions run on a Ray cluster: `ray_cluster`, and its flag --ray."""
