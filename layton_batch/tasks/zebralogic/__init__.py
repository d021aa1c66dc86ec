"""ZebraLogic: the task, right grids and grades (``grids``), the two published protocols, our reader, and files."""
