"""`litellm-registry schema`, hidden: prints the JSON Schema of the file."""

from __future__ import annotations

import click


@click.command("schema", hidden=True)
@click.option("--tables", is_flag=True, help="Print the tables of docs/registry.md instead.")
def schema(tables: bool) -> int:
    """Print the JSON Schema of the registry file."""
    from litellm_registry_hook.core.schema import key_tables, schema_text  # noqa: PLC0415

    click.echo(key_tables() if tables else schema_text(), nl=False)
    return 0
