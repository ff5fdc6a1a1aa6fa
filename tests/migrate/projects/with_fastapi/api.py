from fastapi import FastAPI
from worker import square, worker

from celery.result import AsyncResult

api = FastAPI()


@api.post("/square/{number}")
def start(number: int):
    return {"id": square.delay(number).id}


@api.get("/square/{id}")
def answer(id: str):
    result = AsyncResult(id, app=worker)
    return {"state": result.state, "number": result.get()["number"]}
