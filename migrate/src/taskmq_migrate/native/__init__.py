"""What the rules of the native target share: Celery's vocabulary as the engine's."""
