"""HTTP beside the broker: metrics, health and the version; console and WebSocket will live here.

It runs in a thread of its own and asks the broker on the broker's loop (decision 0026). That thread
imports Starlette, uvicorn and prometheus-client, so a broker without HTTP never loads them.
"""
