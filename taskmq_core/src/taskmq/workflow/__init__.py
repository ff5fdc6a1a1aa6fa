"""Workflows: calls that wait for each other, stored as one, finished without anybody watching."""

from taskmq.plans import Head, Plan, PlannedNode
from taskmq.records import LostJob

from .builder import OnFailure, Workflow
from .declared import InvalidWorkflow, from_data, from_file
from .manage import Workflows
from .node import Node
from .run import WorkflowRun
from .status import Leg, NodeStatus, WorkflowState, WorkflowStatus

__all__ = [
    "Head",
    "InvalidWorkflow",
    "Leg",
    "LostJob",
    "Node",
    "NodeStatus",
    "OnFailure",
    "Plan",
    "PlannedNode",
    "Workflow",
    "WorkflowRun",
    "WorkflowState",
    "WorkflowStatus",
    "Workflows",
    "from_data",
    "from_file",
]
