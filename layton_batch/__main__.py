"""``python -m layton_batch``."""

from layton_batch.cli import main

if __name__ == "__main__":
    main()
