"""`bat-tf serve`."""

from typing import Annotated

import typer

from bat_tf.cli.terminal import DEFAULT, MODEL, Trust, model_path, say


def _limit(help):
    return typer.Option(help=help, rich_help_panel="Limits")


def serve(
    model: Annotated[
        str, typer.Option(*MODEL, help="A SavedModel, or a folder of its versions.")
    ] = DEFAULT,
    host: Annotated[
        str,
        typer.Option(help="0.0.0.0 lets other machines in: see the guide to serving."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Of REST and the page.")] = 8501,
    name: Annotated[str | None, typer.Option(help="What requests call it.")] = None,
    batching: Annotated[bool, typer.Option(help="Let requests share batches.")] = True,
    poll: Annotated[
        float, typer.Option(help="Seconds between looks for a newer version; 0: never.")
    ] = 2,
    log_requests: Annotated[
        bool, typer.Option(help="A line a request on stderr, without its texts.")
    ] = True,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name of this server, beside addresses and localhost."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="A site whose pages may ask, as https://example.com."),
    ] = None,
    max_body: Annotated[int, _limit("Bytes of a request.")] = 1_000_000,
    max_held: Annotated[int, _limit("Bytes of all requests held.")] = 16_000_000,
    max_headers: Annotated[int, _limit("Bytes of a request's headers.")] = 16_384,
    max_text: Annotated[int, _limit("Characters of a text.")] = 20_000,
    max_characters: Annotated[int, _limit("Of a request's texts.")] = 1_000_000,
    max_rows: Annotated[int, _limit("Texts of a request or batch.")] = 64,
    max_requests: Annotated[int, _limit("Requests held at a time.")] = 256,
    max_connections: Annotated[int, _limit("Open at a time.")] = 1024,
    send_seconds: Annotated[
        float, _limit("For a request to arrive, and for its answer to be read.")
    ] = 30,
    idle_seconds: Annotated[float, _limit("Between two requests.")] = 5,
    answer_seconds: Annotated[float, _limit("For an answer to be ready.")] = 120,
    trust: Trust = False,
):
    """Answer TF Serving's REST API, with a page to try the model on."""
    from bat_tf._internal.validation import import_optional

    for package in ("starlette", "uvicorn", "prometheus_client"):
        import_optional(package, "serve", "`bat-tf serve`")
    from bat_tf.cli.terminal import log_to_stderr
    from bat_tf.serving.engine import Engine, Limits
    from bat_tf.serving.server import Server, listen

    limits = Limits(
        body_bytes=max_body,
        held_bytes=max_held,
        header_bytes=max_headers,
        text_characters=max_text,
        characters=max_characters,
        rows=max_rows,
        requests=max_requests,
        connections=max_connections,
        seconds=send_seconds,
        idle_seconds=idle_seconds,
        answer_seconds=answer_seconds,
    )
    log_to_stderr(log_requests)
    listen(host, port).close()  # before time is spent on loading a model
    engine = Engine(model_path(model), name, batching, limits)
    server = Server(
        engine,
        host,
        port,
        allow_hosts=allow_host or (),
        allow_origins=allow_origin or (),
        poll_seconds=poll,
    )
    say(f"{engine.name}, version {engine.model.number}: {server.url}")
    server.run()
