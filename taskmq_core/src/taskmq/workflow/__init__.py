"""Workflows: calls that wait for each other, stored as one, finished without anybody watching."""

from taskmq.records import LostJob

from .builder import OnFailure, Workflow
from .node import Node
from .run import WorkflowRun

__all__ = ["LostJob", "Node", "OnFailure", "Workflow", "WorkflowRun"]
