"""ZebraLogic: the task, right grids and the three protocols that read and compare grids, and files."""
