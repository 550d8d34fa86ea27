"""What people look at.

album = Album()
clf.fit_images(images, look=album.learned)
write_report("pets.report.html", of_training(clf, album, "pets.safetensors"))
"""

from .gather import of_strangers, of_test, of_training
from .page import page, write_report
from .pictures import Album
from .subject import Subject

__all__ = ["Album", "Subject", "of_strangers", "of_test", "of_training", "page", "write_report"]
